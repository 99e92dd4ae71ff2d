import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 60.0
dampsim.bounce = 0.0
dampsim.follow_through = 0.08
dampsim.stiffness_by = "SAG"
dampsim.sag = 5.0
dampsim.poisson = 0.15
dampsim.density = 60.0
