import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 18.0
dampsim.bounce = 55.0
dampsim.follow_through = 0.9
dampsim.stiffness_by = "SAG"
dampsim.sag = 0.6
dampsim.poisson = 0.48
dampsim.density = 1100.0
