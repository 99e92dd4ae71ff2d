import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 60.0
dampsim.bounce = 75.0
dampsim.follow_through = 0.5
dampsim.stiffness_by = "SAG"
dampsim.sag = 0.3
dampsim.poisson = 0.39
dampsim.density = 1150.0
