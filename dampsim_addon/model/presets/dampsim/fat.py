import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 26.0
dampsim.bounce = 30.0
dampsim.follow_through = 1.0
dampsim.stiffness_by = "SAG"
dampsim.sag = 8.0
dampsim.poisson = 0.47
dampsim.density = 920.0
