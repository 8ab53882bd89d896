#!/usr/bin/env node
// Starts Lookout on a Node that is new enough: the one that runs this file, or the one that npm installed beside Lookout.
// It is plain, old JavaScript, because a Node that is too old must be able to read it.
'use strict'

const { spawn } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const { pathToFileURL } = require('node:url')

const NODE_MAJOR = 24
const ROOT = path.dirname(__dirname)
// A checkout runs its sources; a package has what they were compiled to.
const SOURCE = path.join(ROOT, 'src', 'main.ts')
const PROGRAM = fs.existsSync(SOURCE) ? SOURCE : path.join(ROOT, 'dist', 'main.js')

/** The Node that npm installed beside Lookout, on Linux; null where there is none. */
function packagedNode() {
  try {
    const manifest = require.resolve(`node-${process.platform}-${process.arch}/package.json`)
    const program = path.join(path.dirname(manifest), 'bin', 'node')
    return fs.existsSync(program) ? program : null
  } catch (_error) {
    return null
  }
}

/** Signals that follow sooner are one: npm passes on the one that a terminal has sent to all of them. */
const SAME_SIGNAL_MS = 250

/** Runs Lookout on another Node, and ends as that ends. The child ends when the channel between them does. */
function runOn(node) {
  const stdio = ['inherit', 'inherit', 'inherit', 'ipc']
  const env = Object.assign({}, process.env, { LOOKOUT_LAUNCHER: '1' })
  const child = spawn(node, [PROGRAM].concat(process.argv.slice(2)), { stdio, env })
  const passOn = (pass) => {
    let signalled = Number.NEGATIVE_INFINITY
    return () => {
      if (Date.now() - signalled < SAME_SIGNAL_MS) return
      signalled = Date.now()
      pass()
    }
  }
  // A terminal sends it to the child too, where a second SIGINT would be another one. Only the server listens to this.
  process.on(
    'SIGINT',
    passOn(() => child.connected && child.send('SIGINT')),
  )
  // systemd sends it to the child too, other service managers do not. SIGUSR2 asks for the same once more; a second SIGTERM
  // would end the child at once.
  process.on(
    'SIGTERM',
    passOn(() => child.kill('SIGUSR2')),
  )
  // A terminal that closes sends it to the child too, which counts it once.
  process.on('SIGHUP', () => child.kill('SIGHUP'))
  child.on('error', (error) => fail(`cannot start ${node}: ${error.message}`))
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code)
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.removeAllListeners(name)
    process.kill(process.pid, signal === 'SIGUSR2' ? 'SIGTERM' : signal)
  })
}

function fail(message) {
  process.stderr.write(`lookout: ${message}\n`)
  process.exit(1)
}

function main() {
  const { node } = process.versions
  if (Number.parseInt(node, 10) >= NODE_MAJOR) return import(pathToFileURL(PROGRAM).href)
  const packaged = packagedNode()
  if (packaged !== null) return runOn(packaged)
  const otherWay = process.platform === 'linux' ? ', or install Lookout with its optional packages, which bring it' : ''
  fail(`Lookout needs Node ${NODE_MAJOR} or newer, and this is ${node}; install it (https://nodejs.org)${otherWay}.`)
}

main()
