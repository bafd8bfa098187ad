// Print the objects of a folder with a kustomization as YAML, or those of some kinds: render.js FOLDER [KIND...]
'use strict';
const yaml = require('yaml');
const { build } = require('./kustomize');

const [folder, ...kinds] = process.argv.slice(2);
const objects = build(folder).filter(({ kind }) => kinds.length === 0 || kinds.includes(kind));
process.stdout.write(objects.map((object) => yaml.stringify(object)).join('---\n'));
