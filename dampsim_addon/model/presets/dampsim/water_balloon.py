import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 26.0
dampsim.bounce = 60.0
dampsim.follow_through = 0.8
dampsim.stiffness_by = "SAG"
dampsim.sag = 12.0
dampsim.poisson = 0.49
dampsim.density = 1000.0
