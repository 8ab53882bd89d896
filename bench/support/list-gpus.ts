/** Prints the GPUs that the engine uses on this machine, in a process of its own: libraries cannot be unloaded. */
import { loadNativeLibraries } from '../../src/inference/local/native/libraries.ts'
import { locateNativeLibraries } from '../../src/inference/local/native/native-paths.ts'

const { list } = loadNativeLibraries(locateNativeLibraries()).devices
console.log(list.map(({ name, description }) => `${name}: ${description}`).join(', '))
