import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 24.0
dampsim.bounce = 40.0
dampsim.follow_through = 1.0
dampsim.stiffness_by = "MODULUS"
dampsim.stiffness = 250.0
dampsim.poisson = 0.47
dampsim.density = 1100.0
