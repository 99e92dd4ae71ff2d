import bpy

dampsim = bpy.context.object.dampsim

dampsim.settle = 8.0
dampsim.bounce = 0.0
dampsim.follow_through = 0.4
dampsim.stiffness_by = "SAG"
dampsim.sag = 4.0
dampsim.poisson = 0.2
dampsim.density = 60.0
