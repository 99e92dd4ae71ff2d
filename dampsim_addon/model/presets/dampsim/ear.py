import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 16.0
dampsim.bounce = 25.0
dampsim.follow_through = 0.8
dampsim.stiffness_by = "SAG"
dampsim.sag = 3.0
dampsim.poisson = 0.4
dampsim.density = 1100.0
