import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

const CONNECTIONS = 8
/** Requests in flight per connection, so that the client's own event loop does not limit the rate. */
const PIPELINED = 8
const MARK = Buffer.from('HTTP/1.1 200')

/** Repeats a request for `ms`. @returns responses per second. @throws Error for any status but 200. */
export async function requestRate(url: string, request: string, ms: number): Promise<number> {
  const { hostname, port } = new URL(url)
  const bytes = Buffer.from(request)
  const started = performance.now()
  const end = started + ms
  const counts = await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      const socket = connect(Number(port), hostname)
      socket.setNoDelay(true)
      await once(socket, 'connect')
      const answers = await drive(socket, bytes, end)
      socket.destroy()
      return answers
    }),
  )
  return (counts.reduce((sum, count) => sum + count, 0) / (performance.now() - started)) * 1000
}

function drive(socket: Socket, request: Buffer, end: number): Promise<number> {
  return new Promise((resolve, reject) => {
    let answers = 0
    let rest = Buffer.alloc(0)
    for (let i = 0; i < PIPELINED; i++) socket.write(request)
    socket.on('error', reject)
    socket.on('data', (piece: Buffer) => {
      rest = Buffer.concat([rest, piece])
      let seen = 0
      let from = 0
      for (
        let at = rest.indexOf('HTTP/1.1 ');
        at >= 0 && at + MARK.length <= rest.length;
        at = rest.indexOf('HTTP/1.1 ', from)
      ) {
        if (rest.compare(MARK, 0, MARK.length, at, at + MARK.length) !== 0) {
          reject(new Error(`Unexpected response: ${rest.toString('latin1', at, at + 200)}`))
          return
        }
        seen++
        from = at + MARK.length
      }
      rest = rest.subarray(Math.max(from, rest.length - MARK.length))
      answers += seen
      if (performance.now() >= end) resolve(answers)
      else for (let i = 0; i < seen; i++) socket.write(request)
    })
  })
}
