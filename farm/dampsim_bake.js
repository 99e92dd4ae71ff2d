// SPDX-License-Identifier: GPL-3.0-or-later
// Job type for Flamenco 3: a bake task for each shot, object and wedge, and a task that writes the overview page.
// Put it into the folder `scripts` next to flamenco-manager; see docs/how-to/run-a-farm.md.

const JOB_TYPE = {
    label: "DampSim Bake",
    description: "Bake DampSim objects of any number of shots and wedges",
    settings: [
        {
            key: "shots", type: "string", required: false, default: "", visible: "submission",
            description: "Additional .blend files, separated by ';'. The submitted file is always included",
        },
        {
            key: "split_objects", type: "bool", required: false, default: true, visible: "submission",
            description: "Create a task and a file for each object, so that they are baked in parallel. Off: one task for each shot",
        },
        {
            key: "objects", type: "string", required: false, default: "", visible: "submission",
            description: "Objects to bake, separated by ','. Empty: all DampSim objects",
        },
        {
            // Objects of a group are baked together.
            key: "all_objects", type: "string", required: false, visible: "hidden",
            eval: "'\\n'.join(sorted({o.dampsim.together or o.name: o.name for o in C.scene.objects if "
                + "getattr(o, 'dampsim', None) and o.dampsim.enabled}.values()))",
            description: "DampSim objects of the submitted file, one for each group",
        },
        {
            key: "wedges", type: "string", required: false, default: "", visible: "submission",
            description: "Parameter values to combine, such as 'settle=8,16; bounce=0,40'. Empty: the values in the files",
        },
        {
            key: "frames", type: "string", required: false, default: "", visible: "submission",
            description: "Frame range FIRST:LAST, such as '1:120'. Empty: the range of each file",
        },
        {
            key: "target", type: "string", required: false, default: "as the file says", visible: "submission",
            choices: ["as the file says", "shape_keys", "frame_keys", "absolute_keys", "point_cache", "mdd", "alembic"],
            description: "Target of the bake",
        },
        {
            key: "pictures", type: "int32", required: false, default: 4, propargs: {min: 0, max: 24}, visible: "submission",
            description: "Number of frames of each shot to render for the overview page",
        },
        {
            key: "output_root", type: "string", subtype: "dir_path", required: true, visible: "submission",
            description: "Folder that all workers can access. The job creates its own folder in it",
        },
        {
            key: "output_path", type: "string", subtype: "dir_path", editable: false, visible: "web",
            eval: "str(Path(abspath(settings.output_root), jobname))",
            description: "Output folder of the job. Submitting the same job again skips finished tasks",
        },
        {key: "blendfile", type: "string", required: true, visible: "web", description: "The submitted file"},
    ],
};

// Files and folders in the output folder.
const OWN_NAMES = [
    "units.json", "report.json", "report.json.lock", "log.txt", "cancel", "cache", "done", "index.html", "farm.csv",
];

function compileJob(job) {
    const settings = job.settings;
    const root = settings.output_path;
    if (!root) {
        throw "DampSim Bake: the output folder is missing; choose one as Output Root";
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
    // The file is not used, but some versions of Flamenco require one.
    gather.addCommand(blender(settings.blendfile, ["gather", root]));
    for (const task of bakes) {
        job.addTask(task);
        gather.addDependency(task);
    }
    job.addTask(gather);
}

// Returns the objects of each task of a shot; an empty list stands for all objects of the shot.
function shared(settings, isSubmitted) {
    const named = listed(settings.objects, ",");
    if (!settings.split_objects) {
        return [named];
    }
    // The objects of other files are unknown before they are opened.
    const known = named.length || !isSubmitted ? named : listed(settings.all_objects, "\n");
    return known.length ? known.map((name) => [name]) : [[]];
}

// names: shot, wedge and object.  folder: output folder of the task, relative to the root.
function bakeTask(settings, root, file, names, folder, objects, combination) {
    const place = path.join(root, folder);
    const args = [
        "bake", "--skip-done", "--failures-in-report", "--until-parent-ends",
        "--cancel=" + path.join(root, "cancel"),
        "--report=" + path.join(place, "report.json"),
        "--output=" + path.join(place, plain(names[0]) + ".blend"),
        "--cache=" + path.join(place, "cache"),
    ];
    // A value that begins with "-" has to be in the same argument as its option.
    for (const object of objects) {
        args.push("--object=" + object);
    }
    for (const setting of combination) {
        args.push("--set=" + setting);
    }
    if (settings.frames) {
        args.push("--frames=" + settings.frames);
    }
    if (settings.target && settings.target !== "as the file says") {
        args.push("--target=" + settings.target);
    }
    if (settings.pictures > 0) {
        args.push("--pictures=" + String(settings.pictures));
    }
    const task = author.Task(names.join(" "), "blender");
    task.addCommand(author.Command("make-directory", {path: place}));
    task.addCommand(blender(file, args));
    return task;
}

// Returns a Flamenco command that runs Blender with a DampSim command.
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

// Returns all combinations of "settle=8,16; bounce=0,40" as lists of NAME=VALUE. The last name changes fastest.
function combined(text) {
    let found = [[]];
    for (const part of listed(text, ";")) {
        const sign = part.indexOf("=");
        const values = sign > 0 ? listed(part.slice(sign + 1), ",") : [];
        if (!values.length) {
            throw `DampSim Bake: '${part}' is not a wedge; write NAME=VALUE,VALUE`;
        }
        const name = part.slice(0, sign).trim();
        found = [].concat(...found.map((before) => values.map((value) => before.concat([`${name}=${value}`]))));
    }
    return found;
}

// Returns a function that makes a unique valid folder name of each list of names. Windows and macOS ignore case.
function unique() {
    const taken = {};
    return (names) => {
        const folder = names.map(plain).join("/");
        let found = folder;
        for (let number = 2; taken["/" + found.toLowerCase()]; number++) {
            found = `${folder}_${number}`;
        }
        taken["/" + found.toLowerCase()] = true;
        return found;
    };
}

// Returns a name that every file system accepts: no device of Windows, no dot at either end, at most 100 characters.
function plain(name) {
    const found = name.replace(/[^A-Za-z0-9.,=+-]+/g, "_").slice(0, 100).replace(/^\.+|\.+$/g, "_") || "_";
    const isDevice = /^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)/i.test(found);
    return isDevice || OWN_NAMES.includes(found.toLowerCase()) ? "_" + found : found;
}
