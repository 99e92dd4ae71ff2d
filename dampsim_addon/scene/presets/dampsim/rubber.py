import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 20.0
dampsim.bounce = 50.0
dampsim.follow_through = 1.0
dampsim.stiffness_by = "MODULUS"
dampsim.stiffness = 1500.0
dampsim.poisson = 0.48
dampsim.density = 1100.0
