import type { FastifyInstance } from 'fastify'
import { rawItems, rawMember } from '../raw-json.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The items of `tools` in the body as the client wrote them; null without any. */
    rawTools: readonly string[] | null
  }
}

/** Has bodies parsed as ever, and kept of them what parsing loses and a model is to see: how schemas of tools are written. */
export function keepRawTools(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('remove', 'remove')
  app.decorateRequest('rawTools', null)
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, text, done) => {
    parse(request, text as string, (error, body) => {
      const { tools } = (body ?? {}) as { tools?: unknown }
      // Copies, because a slice would keep the whole text.
      if (Array.isArray(tools))
        request.rawTools = (rawItems(rawMember(text as string, 'tools') ?? '') ?? []).map(copyOf)
      done(error, body)
    })
  })
}

function copyOf(text: string): string {
  return Buffer.from(text, 'utf16le').toString('utf16le')
}

/** The schema of a tool's parameters as the client wrote it; null when it has none. */
export function rawParameters(tool: string | undefined): string | null {
  const declared = tool === undefined ? null : rawMember(tool, 'function')
  const parameters = declared === null ? null : rawMember(declared, 'parameters')
  return parameters === 'null' ? null : parameters
}
