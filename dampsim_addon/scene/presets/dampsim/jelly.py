import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 36.0
dampsim.bounce = 45.0
dampsim.follow_through = 1.0
dampsim.stiffness_by = "MODULUS"
dampsim.stiffness = 10.0
dampsim.poisson = 0.45
dampsim.density = 1050.0
