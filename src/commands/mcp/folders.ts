import {
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  type InputRequiredResult,
  inputRequired,
  inputResponse,
  type McpServer,
  type Root,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { MediaError } from '../asking/media.ts'
import { AllowedMedia } from './allowed-media.ts'

/** Says which files a call may have looked at, or what the client must answer first. */
export type Folders = (server: McpServer, context: ServerContext) => Promise<AllowedMedia | InputRequiredResult>

/** Also remembers the folders that the client named last, for the list of resources: since 2026-07-28 it cannot ask for them. */
export function remembering(folders: Folders): { readonly folders: Folders; readonly latest: Folders } {
  let last: AllowedMedia | null = null
  const ask: Folders = async (server, context) => {
    const media = await folders(server, context)
    if (media instanceof AllowedMedia) last = media
    return media
  }
  return {
    folders: ask,
    latest: async (server, context) => {
      const media = await ask(server, context)
      return media instanceof AllowedMedia ? media : (last ?? media)
    },
  }
}

const ROOTS = 'roots'

/**
 * The folders that the client offers as its roots. They are for a client that has started this process: it may do no more
 * with them than without it.
 */
export const clientFolders: Folders = async (server, context) => {
  const { envelope, inputResponses } = context.mcpReq
  // With each request since 2026-07-28, before that once.
  const stated = (envelope as Record<string, unknown> | undefined)?.[CLIENT_CAPABILITIES_META_KEY]
  const capabilities = (stated ?? server.server.getClientCapabilities()) as ClientCapabilities | undefined
  if (capabilities?.roots === undefined) return AllowedMedia.offered([])
  // Clients of before are asked. Later ones take no requests: they send the call again with the answer.
  if (stated === undefined) {
    const { roots } = await context.mcpReq.send({ method: 'roots/list' }).catch((error: Error) => {
      context.mcpReq.signal.throwIfAborted()
      throw new MediaError(`the client did not say which folders it offers: ${error.message}`)
    })
    return AllowedMedia.offered(addressesOf(roots))
  }
  const answer = inputResponse(inputResponses, ROOTS)
  if (answer.kind === 'roots') return AllowedMedia.offered(addressesOf(answer.roots))
  return inputRequired({ inputRequests: { [ROOTS]: inputRequired.listRoots() } })
}

function addressesOf(roots: readonly Root[]): string[] {
  return roots.map(({ uri }) => uri).filter((uri) => typeof uri === 'string')
}
