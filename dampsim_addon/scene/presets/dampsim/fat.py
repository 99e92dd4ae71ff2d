import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 22.0
dampsim.bounce = 25.0
dampsim.follow_through = 1.0
dampsim.stiffness_by = "MODULUS"
dampsim.stiffness = 5.0
dampsim.poisson = 0.47
dampsim.density = 920.0
