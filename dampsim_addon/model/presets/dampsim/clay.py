import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 10.0
dampsim.bounce = 0.0
dampsim.follow_through = 0.5
dampsim.stiffness_by = "SAG"
dampsim.sag = 0.5
dampsim.poisson = 0.45
dampsim.density = 1800.0
dampsim.plastic_yield = 4.0
dampsim.plastic_creep = 40.0
dampsim.plastic_most = 150.0
