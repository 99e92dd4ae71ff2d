// Prints the vertices of the skinned meshes of a glTF file as three.js plays it, at some times: FILE SECONDS…
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const load = (name) => import(pathToFileURL(join(process.env.DAMPSIM_THREE, "node_modules/three", name)));
const THREE = await load("build/three.module.js");
const { GLTFLoader } = await load("examples/jsm/loaders/GLTFLoader.js");
const content = await readFile(process.argv[2]);
const buffer = content.buffer.slice(content.byteOffset, content.byteOffset + content.byteLength);
const file = await new GLTFLoader().parseAsync(buffer, "");
const mixer = new THREE.AnimationMixer(file.scene);
for (const clip of file.animations) mixer.clipAction(clip).play();
const shapes = process.argv.slice(3).map((seconds) => {
  mixer.setTime(Number(seconds));
  file.scene.updateMatrixWorld(true);
  const points = [];
  file.scene.traverse((one) => {
    if (!one.isSkinnedMesh) return;
    const point = new THREE.Vector3();
    for (let k = 0; k < one.geometry.attributes.position.count; k++) {
      one.getVertexPosition(k, point).applyMatrix4(one.matrixWorld);
      points.push([point.x, point.y, point.z]);
    }
  });
  return points;
});
process.stdout.write(JSON.stringify(shapes));
