import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 20.0
dampsim.bounce = 60.0
dampsim.follow_through = 1.0
dampsim.stiffness_by = "MODULUS"
dampsim.stiffness = 50.0
dampsim.poisson = 0.49
dampsim.density = 1000.0
