// The platforms that Lookout supports, checked by set-up and by the command line. Plain JavaScript: it may run on an
// older Node.
import { SetupError } from './native-library.mjs'

const NODE_MAJOR = 24

/** @throws SetupError on Windows, where neither the native libraries nor the packaged Node run. */
export function checkPlatform() {
  if (process.platform !== 'win32') return
  throw new SetupError('Lookout does not run on Windows itself. Run it in WSL2, or in a Linux container with Docker.')
}

/** @throws SetupError when this Node is too old. */
export function checkNode() {
  const { node } = process.versions
  if (Number.parseInt(node, 10) >= NODE_MAJOR) return
  throw new SetupError(
    process.platform === 'linux'
      ? `Lookout needs Node ${NODE_MAJOR}, and this is ${node}. Start it with npx lookout or npm start, which use the Node that npm ci has installed.`
      : `Lookout needs Node ${NODE_MAJOR} or newer, and this is ${node}. Install it (https://nodejs.org) and try again.`,
  )
}
