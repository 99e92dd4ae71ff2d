import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 32.0
dampsim.bounce = 50.0
dampsim.follow_through = 0.9
dampsim.stiffness_by = "SAG"
dampsim.sag = 8.0
dampsim.poisson = 0.45
dampsim.density = 1050.0
