import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 16.0
dampsim.bounce = 0.0
dampsim.follow_through = 0.35
dampsim.stiffness_by = "SAG"
dampsim.sag = 10.0
dampsim.poisson = 0.45
dampsim.density = 1200.0
dampsim.plastic_yield = 25.0
dampsim.plastic_creep = 3.0
dampsim.plastic_most = 150.0
