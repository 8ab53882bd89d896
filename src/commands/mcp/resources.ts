import { pathToFileURL } from 'node:url'
import {
  type InputRequiredResult,
  type McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type ReadResourceResult,
  ResourceNotFoundError,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { ConfigError } from '../../config/config.ts'
import { AllowedMedia, NoSuchFile } from './allowed-media.ts'
import { signalOf } from './call.ts'
import type { Folders, remembering } from './folders.ts'
import { forAgents } from './shown-picture.ts'

const PAGE = 100

/**
 * The pictures of the allowed folders as resources, which a client shows to its user or to its own model. `McpServer` would list
 * all of them on one page.
 */
export function serveResources(mcp: McpServer, { folders, latest }: ReturnType<typeof remembering>): void {
  const { server } = mcp
  server.registerCapabilities({ resources: {} })

  server.setRequestHandler('resources/list', async ({ params }, context) => {
    const media = await allowedFor(mcp, context, latest)
    if (media === null) return { resources: [] }
    const wanted = { path: null, recursive: true, text: null, kind: 'image', sort: 'name', limit: PAGE } as const
    const { files, cursor } = await media
      .list({ ...wanted, cursor: params?.cursor ?? null }, signalOf(context))
      .catch(toProtocolError)
    return {
      resources: files.map(({ path, name, type, byteLength, modified }) => ({
        uri: pathToFileURL(path).href,
        name,
        ...(type.startsWith('image/') ? { mimeType: type } : {}),
        size: byteLength,
        annotations: { lastModified: modified.toISOString() },
      })),
      ...(cursor === null ? {} : { nextCursor: cursor }),
    }
  })

  server.setRequestHandler('resources/templates/list', async () => ({
    resourceTemplates: [
      {
        name: 'picture',
        title: 'A picture in an allowed folder',
        uriTemplate: 'file://{+path}',
        description:
          'By its absolute path. A large picture comes as a smaller JPEG, one of a rarer format as PNG or JPEG.',
      },
    ],
  }))

  server.setRequestHandler('resources/read', async ({ params }, context) => {
    const { uri } = params
    return readPicture(uri, await folders(mcp, context), context).catch((error) => toProtocolError(error, uri))
  })
}

/** Null if no folder is allowed, or none is known yet. */
async function allowedFor(mcp: McpServer, context: ServerContext, folders: Folders): Promise<AllowedMedia | null> {
  const media = await folders(mcp, context).catch(toProtocolError)
  return media instanceof AllowedMedia && media.isOpen ? media : null
}

async function readPicture(
  uri: string,
  media: AllowedMedia | InputRequiredResult,
  context: ServerContext,
): Promise<ReadResourceResult | InputRequiredResult> {
  if (!(media instanceof AllowedMedia)) return media
  if (!/^file:/i.test(uri)) throw new NoSuchFile(`${uri} is not the address of a file`)
  await using held = new AsyncDisposableStack()
  const source = await media.open(uri, { held, page: null, notes: [] })
  signalOf(context).throwIfAborted()
  const { bytes, type } = await forAgents(uri, source)
  return { contents: [{ uri, mimeType: type, blob: Buffer.from(bytes).toString('base64') }] }
}

function toProtocolError(error: unknown, uri?: string): never {
  if (error instanceof NoSuchFile && uri !== undefined) throw new ResourceNotFoundError(uri, error.message)
  if (error instanceof ConfigError) throw new ProtocolError(ProtocolErrorCode.InvalidParams, error.message)
  throw error
}
