import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 26.0
dampsim.bounce = 25.0
dampsim.follow_through = 0.8
dampsim.stiffness_by = "SAG"
dampsim.sag = 4.0
dampsim.poisson = 0.42
dampsim.density = 1050.0
