import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 14.0
dampsim.bounce = 15.0
dampsim.follow_through = 0.8
dampsim.stiffness_by = "MODULUS"
dampsim.stiffness = 30.0
dampsim.poisson = 0.45
dampsim.density = 1060.0
