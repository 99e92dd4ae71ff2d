import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 5.0
dampsim.bounce = 0.0
dampsim.follow_through = 0.2
dampsim.stiffness_by = "SAG"
dampsim.sag = 0.1
dampsim.poisson = 0.0
dampsim.density = 200.0
