import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 60.0
dampsim.bounce = 75.0
dampsim.follow_through = 0.5
dampsim.stiffness_by = "MODULUS"
dampsim.stiffness = 3000000.0
dampsim.poisson = 0.39
dampsim.density = 1150.0
