// A small model of Flamenco's manager: its rules for the settings of a job type, and its script API.
//   node flamenco.js SCRIPT.js             prints the job type
//   node flamenco.js SCRIPT.js JOB.json    compiles a job, {name, settings}, and prints its tasks
// Facts from Flamenco's documentation and its API description: usage/job-types, usage/jobs-tasks-commands, and the
// schemas AvailableJobType and AvailableJobSetting. Scripts run in strict mode, without node's globals.
"use strict";

const fs = require("fs");
const nodePath = require("path").posix;
const vm = require("vm");

const TYPES = {string: "string", int32: "number", float: "number", bool: "boolean"};
const SUBTYPES = ["file_path", "dir_path", "file_name", "hashed_file_path"];
const VISIBLE = ["visible", "submission", "web", "hidden"];
const KEYS = [
    "key", "type", "subtype", "choices", "propargs", "description", "label", "default", "eval", "evalInfo", "visible",
    "required", "editable",
];
// Names that Flamenco's property groups in Blender already use.
const RESERVED = ["name", "job_type", "label", "locals", "bl_rna", "rna_type"];
const COMMANDS = {
    "blender-render": {exe: "string", exeArgs: "string", argsBefore: "list", blendfile: "string", args: "list"},
    "make-directory": {path: "string"},
    "move-directory": {src: "string", dest: "string"},
    "copy-file": {src: "string", dest: "string"},
    "exec": {exe: "string", args: "list"},
    "echo": {message: "string"},
};
const TASK_TYPES = ["blender", "ffmpeg", "file-management", "misc"];

function demand(condition, text) {
    if (!condition) {
        throw new Error(text);
    }
}

function checkSetting(setting, keys) {
    const name = JSON.stringify(setting.key);
    for (const key of Object.keys(setting)) {
        demand(KEYS.includes(key), `${name}: unknown key '${key}'`);
    }
    // The key becomes a property in Blender and a name in expressions.
    demand(/^[a-z][a-z0-9_]*$/.test(setting.key), `${name}: not a valid property name`);
    demand(!RESERVED.includes(setting.key), `${name}: the name is reserved`);
    demand(!keys.has(setting.key), `${name}: defined twice`);
    demand(setting.type in TYPES, `${name}: unknown type ${setting.type}`);
    const visible = setting.visible;
    demand(visible === undefined || VISIBLE.includes(visible), `${name}: unknown visibility ${visible}`);
    if (setting.default !== undefined) {
        demand(typeof setting.default === TYPES[setting.type], `${name}: the default has another type`);
        demand(setting.type !== "int32" || Number.isInteger(setting.default), `${name}: the default is not an integer`);
    }
    for (const key of ["subtype", "choices"]) {
        demand(setting[key] === undefined || setting.type === "string", `${name}: only strings may have ${key}`);
    }
    const subtype = setting.subtype;
    demand(subtype === undefined || SUBTYPES.includes(subtype), `${name}: unknown subtype ${subtype}`);
    if (setting.choices !== undefined) {
        demand(setting.choices.every((one) => typeof one === "string"), `${name}: choices must be strings`);
        demand(setting.choices.includes(setting.default), `${name}: the default is not among its choices`);
    }
    for (const key of ["eval", "description", "label"]) {
        demand(setting[key] === undefined || typeof setting[key] === "string", `${name}: ${key} must be a string`);
    }
    // Blender's rule for tooltips.
    demand(!/\.$/.test(setting.description || ""), `${name}: the description must not end in a period`);
    if (setting.editable === false) {
        demand(setting.eval || setting.default !== undefined, `${name}: it is not editable and has no value`);
    }
    keys.add(setting.key);
}

function checkType(type) {
    demand(type !== undefined, "JOB_TYPE is missing");
    for (const key of Object.keys(type)) {
        demand(["label", "description", "settings"].includes(key), `JOB_TYPE: unknown key '${key}'`);
    }
    demand(typeof type.label === "string" && type.label !== "", "JOB_TYPE: the label is missing");
    const keys = new Set();
    for (const setting of type.settings) {
        checkSetting(setting, keys);
    }
    demand(keys.has("blendfile"), "the setting 'blendfile' is missing, which receives the file's path");
}

function checkCommand(command) {
    const known = COMMANDS[command.name];
    demand(known !== undefined, `unknown command ${command.name}`);
    for (const [key, value] of Object.entries(command.parameters)) {
        const fits = known[key] === "list"
            ? Array.isArray(value) && value.every((one) => typeof one === "string") : typeof value === known[key];
        demand(fits, `${command.name}: ${key} is ${JSON.stringify(value)}`);
    }
    for (const key of Object.keys(known)) {
        demand(key in command.parameters, `${command.name}: ${key} is missing`);
    }
}

class Task {
    constructor(name, type) {
        this.name = name.trim();
        this.type = type.trim();
        this.commands = [];
        this.needs = [];
        demand(this.name && this.type, "a task must have a name and a type");
        demand(TASK_TYPES.includes(this.type), `no worker runs tasks of type ${this.type}`);
    }

    addCommand(command) {
        this.commands.push(command);
    }

    addDependency(task) {
        demand(task instanceof Task, "a task can only depend on tasks");
        this.needs.push(task);
    }
}

class Job {
    constructor(submitted) {
        this.name = submitted.name;
        this.settings = submitted.settings;
        this.metadata = {};
        this.priority = 50;
        this.created = new Date(0);
        this.tasks = [];
    }

    // Copy the task: later additions to it are lost.
    addTask(task) {
        const needs = task.needs.map((need) => {
            const place = this.tasks.findIndex((known) => known.task === need);
            demand(place >= 0, `${task.name} depends on a task that is not in the job`);
            return place;
        });
        task.commands.forEach(checkCommand);
        demand(task.commands.length > 0, `${task.name} has no commands`);
        this.tasks.push({task, name: task.name, type: task.type, commands: [...task.commands], needs});
    }
}

function main(script, submitted) {
    const names = {
        author: {
            Task: function (name, type) { return new Task(name, type); },
            Command: function (name, parameters) { return {name, parameters}; },
        },
        path: {
            join: nodePath.join, basename: nodePath.basename, dirname: nodePath.dirname,
            stem: (name) => nodePath.basename(name, nodePath.extname(name)),
        },
        print: () => undefined,
        alert: () => undefined,
        formatTimestampLocal: () => "1970-01-01_000000",
    };
    const source = `"use strict";${fs.readFileSync(script, "utf8")}\n;({JOB_TYPE, compileJob})`;
    const found = vm.runInNewContext(source, names, {filename: script});
    checkType(found.JOB_TYPE);
    if (!submitted) {
        return found.JOB_TYPE;
    }
    const job = new Job(submitted);
    for (const setting of found.JOB_TYPE.settings) {
        const value = job.settings[setting.key];
        demand(value !== undefined || !setting.required, `the job has no ${setting.key}`);
        demand(value === undefined || typeof value === TYPES[setting.type], `${setting.key} has another type`);
    }
    found.compileJob(job);
    return job.tasks.map(({name, type, commands, needs}) => ({name, type, commands, needs}));
}

try {
    const submitted = process.argv[3] && JSON.parse(fs.readFileSync(process.argv[3], "utf8"));
    process.stdout.write(JSON.stringify(main(process.argv[2], submitted)));
} catch (error) {
    process.stderr.write(`${error && error.message ? error.message : error}\n`);
    process.exitCode = 1;
}
