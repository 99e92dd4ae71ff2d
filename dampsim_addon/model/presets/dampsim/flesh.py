import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 14.0
dampsim.bounce = 15.0
dampsim.follow_through = 1.0
dampsim.stiffness_by = "SAG"
dampsim.sag = 3.0
dampsim.poisson = 0.45
dampsim.density = 1060.0
