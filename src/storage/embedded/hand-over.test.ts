import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { cacheDirectory } from '../../setup/native-library.mjs'
import { Database } from '../database.ts'
import { PathSocket, socketPath } from './address.ts'

/** Starts the process of a database. @param patch a module that it runs first. */
function startProcess(directory: string, patch = '') {
  const program = new URL('database-process.ts', import.meta.url)
  const execArgv = [`--import=data:text/javascript,${encodeURIComponent(patch)}`]
  const child = fork(program, [directory, cacheDirectory()], { stdio: 'ignore', execArgv })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

test('a process that ends between answering and being asked is followed by the next one', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-hand-over-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }))
  // What a database's process looks like that takes one last connection while it closes.
  const leaving = createServer((socket) => {
    leaving.close()
    socket.destroy()
  })
  await new Promise<void>((resolve) => leaving.listen(socketPath(directory), resolve))

  const database = await Database.open({ url: null, directory, cacheDirectory: cacheDirectory() })
  onTestFinished(() => database.close())
  expect(await database.execute(sql`select 1 as one`)).toEqual([{ one: 1 }])
})

test('a transaction that writes much gets more time', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-hand-over-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }))
  const options = { url: null, directory, cacheDirectory: cacheDirectory(), queryTimeoutMs: 50 }
  const database = await Database.open(options)
  onTestFinished(() => database.close())
  const sleep = (bytes?: number) => database.transaction((queries) => queries.execute(sql`select pg_sleep(1)`), bytes)
  await expect(sleep()).rejects.toMatchObject({ status: 503 })
  await expect(sleep(600 * 2 ** 20)).resolves.toMatchObject({ rowCount: 1 })
})

test('a process whose program ends before the database is open ends too', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-hand-over-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }))
  const child = startProcess(directory)
  child.disconnect()
  expect(await once(child, 'exit')).toEqual([0, null])
})

test('a file system that cannot sync folders has a database', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-hand-over-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }))
  const patch = `
    import fs, { fstatSync } from 'node:fs'
    import { syncBuiltinESMExports } from 'node:module'
    const { fsyncSync } = fs
    const check = (fd) => {
      if (fstatSync(fd).isDirectory()) throw Object.assign(new Error('EINVAL: invalid argument, fsync'), { code: 'EINVAL' })
    }
    const file = await fs.promises.open(process.execPath)
    const { sync } = Object.getPrototypeOf(file)
    Object.getPrototypeOf(file).sync = async function () {
      check(this.fd)
      await sync.call(this)
    }
    await file.close()
    fs.fsyncSync = (fd) => {
      check(fd)
      fsyncSync(fd)
    }
    syncBuiltinESMExports()`
  const child = startProcess(directory, patch)
  expect(await once(child, 'message')).toEqual([{ state: 'ready' }, undefined])
})

test('a disk that fails to sync ends the process', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-hand-over-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }))
  const bad = join(directory, 'bad')
  const patch = `
    import fs, { existsSync } from 'node:fs'
    import { syncBuiltinESMExports } from 'node:module'
    const { fdatasyncSync } = fs
    fs.fdatasyncSync = (fd) => {
      if (existsSync(${JSON.stringify(bad)})) throw Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' })
      fdatasyncSync(fd)
    }
    syncBuiltinESMExports()`
  const child = startProcess(directory, patch)
  await once(child, 'message')
  const ended = once(child, 'exit')
  const client = new pg.Client({ user: 'postgres', stream: () => new PathSocket(socketPath(directory)) })
  client.on('error', () => {})
  await client.connect()
  await writeFile(bad, '')
  await expect(client.query('create table kept ()')).rejects.toThrow()
  expect(await ended).toEqual([1, null])
})
