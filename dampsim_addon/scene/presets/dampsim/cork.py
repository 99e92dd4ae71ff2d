import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 5.0
dampsim.bounce = 0.0
dampsim.follow_through = 0.2
dampsim.stiffness_by = "MODULUS"
dampsim.stiffness = 20000.0
dampsim.poisson = 0.0
dampsim.density = 200.0
