import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 26.0
dampsim.bounce = 35.0
dampsim.follow_through = 0.6
dampsim.stiffness_by = "SAG"
dampsim.sag = 1.5
dampsim.poisson = 0.47
dampsim.density = 1100.0
