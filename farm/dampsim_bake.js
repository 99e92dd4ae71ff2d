// SPDX-License-Identifier: GPL-3.0-or-later
// A job type of Flamenco 3: DampSim's bakes, a task for each shot, object and wedge, and one that gathers the report.
// It goes into the folder `scripts` beside flamenco-manager; docs/farm.md says more.

const JOB_TYPE = {
    label: "DampSim Bake",
    description: "Bake what DampSim simulates, with any number of shots, objects and wedges",
    settings: [
        {
            key: "shots", type: "string", required: false, default: "", visible: "submission",
            description: "More .blend files, divided by ';'. The file that is submitted is always one of the shots",
        },
        {
            key: "split_objects", type: "bool", required: false, default: true, visible: "submission",
            description: "A task and a file for each object, so that they are baked at the same time. Off: one for all of a shot",
        },
        {
            key: "objects", type: "string", required: false, default: "", visible: "submission",
            description: "Only these, divided by ','. Empty: all that DampSim simulates",
        },
        {
            // Those that are simulated together are baked together.
            key: "all_objects", type: "string", required: false, visible: "hidden",
            eval: "'\\n'.join(sorted({o.dampsim.together or o.name: o.name for o in C.scene.objects if "
                + "getattr(o, 'dampsim', None) and o.dampsim.enabled}.values()))",
            description: "What DampSim simulates in the file that is submitted, one of each group",
        },
        {
            key: "wedges", type: "string", required: false, default: "", visible: "submission",
            description: "Dials to try in all combinations, as 'settle=8,16; bounce=0,40'. Empty: as the files say",
        },
        {
            key: "frames", type: "string", required: false, default: "", visible: "submission",
            description: "FIRST:LAST, as '1:120'. Empty: each file's own range",
        },
        {
            key: "target", type: "string", required: false, default: "as the file says", visible: "submission",
            choices: ["as the file says", "shape_keys", "frame_keys", "absolute_keys", "point_cache", "mdd", "alembic"],
            description: "What the bake becomes",
        },
        {
            key: "pictures", type: "int32", required: false, default: 4, propargs: {min: 0, max: 24}, visible: "submission",
            description: "Frames of each shot to render for the page, or 0",
        },
        {
            key: "output_root", type: "string", subtype: "dir_path", required: true, visible: "submission",
            description: "A folder that all workers see; the job gets one of its own in it",
        },
        {
            key: "output_path", type: "string", subtype: "dir_path", editable: false, visible: "web",
            eval: "str(Path(abspath(settings.output_root), jobname))",
            description: "Where everything goes. The same job again skips what is done there",
        },
        {key: "blendfile", type: "string", required: true, visible: "web", description: "The file that was submitted"},
    ],
};

function compileJob(job) {
    const settings = job.settings;
    const root = settings.output_path;
    if (!root) {
        throw "DampSim Bake: there is no output folder; choose one as Output Root";
    }
    const files = [settings.blendfile].concat(listed(settings.shots, ";"));
    const combinations = combined(settings.wedges);
    const folders = unique();
    const bakes = [];
    for (const file of files) {
        const shot = path.stem(file).replace(".flamenco", "");
        for (const combination of combinations) {
            for (const objects of shared(settings, file === settings.blendfile)) {
                const names = [shot, combination.join(",") || "as_it_is"].concat(settings.split_objects ? objects : []);
                bakes.push(bakeTask(settings, root, file, names, folders(names), objects, combination));
            }
        }
    }
    const gather = author.Task("gather", "blender");
    // Any file does; some versions of Flamenco need one.
    gather.addCommand(blender(settings.blendfile, ["gather", root]));
    for (const task of bakes) {
        job.addTask(task);
        gather.addDependency(task);
    }
    job.addTask(gather);
}

// The objects of each task of a shot; an empty list is all that the shot has.
function shared(settings, isSubmitted) {
    const named = listed(settings.objects, ",");
    if (!settings.split_objects) {
        return [named];
    }
    // What another file has, nobody knows here.
    const known = named.length || !isSubmitted ? named : listed(settings.all_objects, "\n");
    return known.length ? known.map((name) => [name]) : [[]];
}

// names: of the shot, the wedge and the object.  folder: for all that the task writes, below the root.
function bakeTask(settings, root, file, names, folder, objects, combination) {
    const place = path.join(root, folder);
    const args = [
        "bake", "--skip-done", "--failures-in-report", "--until-parent-ends",
        "--cancel", path.join(root, "cancel"),
        "--report", path.join(place, "report.json"),
        "--output", path.join(place, plain(names[0]) + ".blend"),
        "--cache", path.join(place, "cache"),
    ];
    for (const object of objects) {
        args.push("--object", object);
    }
    for (const setting of combination) {
        args.push("--set", setting);
    }
    if (settings.frames) {
        args.push("--frames", settings.frames);
    }
    if (settings.target && settings.target !== "as the file says") {
        args.push("--target", settings.target);
    }
    if (settings.pictures > 0) {
        args.push("--pictures", String(settings.pictures));
    }
    const task = author.Task(names.join(" "), "blender");
    task.addCommand(author.Command("make-directory", {path: place}));
    task.addCommand(blender(file, args));
    return task;
}

// A run of Blender with a command of DampSim's.
function blender(file, args) {
    return author.Command("blender-render", {
        exe: "{blender}",
        exeArgs: "{blenderArgs}",
        argsBefore: ["--background"],
        blendfile: file,
        args: ["--python-exit-code", "3", "--command", "dampsim"].concat(args),
    });
}

function listed(text, sign) {
    return (text || "").split(sign).map((part) => part.trim()).filter((part) => part);
}

// All combinations of "settle=8,16; bounce=0,40": lists of NAME=VALUE, the last name changing fastest.
function combined(text) {
    let found = [[]];
    for (const part of listed(text, ";")) {
        const sign = part.indexOf("=");
        const values = sign > 0 ? listed(part.slice(sign + 1), ",") : [];
        if (!values.length) {
            throw `DampSim Bake: '${part}' is no wedge; write NAME=VALUE,VALUE`;
        }
        const name = part.slice(0, sign).trim();
        found = [].concat(...found.map((before) => values.map((value) => before.concat([`${name}=${value}`]))));
    }
    return found;
}

// A folder for each list of names, whatever the disk forbids in them.
function unique() {
    const taken = {};
    return (names) => {
        const folder = names.map(plain).join("/");
        taken[folder] = (taken[folder] || 0) + 1;
        return taken[folder] > 1 ? `${folder}_${taken[folder]}` : folder;
    };
}

function plain(name) {
    return name.replace(/[^A-Za-z0-9.,=+-]+/g, "_").replace(/^\.+/, "_");
}
