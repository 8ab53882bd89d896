/** Reads a request and answers at once in Lookout's format: the cost of a request without Lookout. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const answer = JSON.stringify({
  choices: [{ index: 0, message: { role: 'assistant', content: ' word' }, finish_reason: 'length' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
})

const server = createServer((request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => pieces.push(piece))
  request.on('end', () => {
    JSON.parse(Buffer.concat(pieces).toString())
    response.setHeader('content-type', 'application/json').end(answer)
  })
})
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`listens on http://127.0.0.1:${(server.address() as AddressInfo).port}\n`)
})
process.on('SIGTERM', () => process.exit(0))
