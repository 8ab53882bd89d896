/** The library's server over a database like ours. Arguments: the folder of the database and the path of the socket. */
import { openPglite } from '../../src/storage/embedded/pglite.ts'

const CONNECTIONS = 100

interface SocketServer {
  start(): Promise<void>
}
type SocketLibrary = { PGLiteSocketServer: new (options: object) => SocketServer }

const [directory, path] = process.argv.slice(2)
// In a variable: the type checker need not find what is no dependency.
const name = '@electric-sql/pglite-socket'
const { PGLiteSocketServer } = (await import(name)) as SocketLibrary
const db = await openPglite(directory!)
await new PGLiteSocketServer({ db, path, maxConnections: CONNECTIONS }).start()
process.on('disconnect', () => process.exit(0))
process.send!('ready')
