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

/** Determines which files a call may use, or which question the client must answer first. */
export type Folders = (server: McpServer, context: ServerContext) => Promise<AllowedMedia | InputRequiredResult>

/**
 * Remembers the client's last folders, for the list of resources: since version 2026-07-28, that cannot ask for them.
 */
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
 * The folders that the client offers as its roots. They are only for a client that has started this process, which
 * gives it no further rights.
 */
export const clientFolders: Folders = async (server, context) => {
  const { envelope, inputResponses } = context.mcpReq
  // Since version 2026-07-28, capabilities are in each request; before, they were sent once.
  const stated = (envelope as Record<string, unknown> | undefined)?.[CLIENT_CAPABILITIES_META_KEY]
  const capabilities = (stated ?? server.server.getClientCapabilities()) as ClientCapabilities | undefined
  if (capabilities?.roots === undefined) return AllowedMedia.offered([])
  // Clients of earlier versions are asked. Later ones accept no requests: they repeat the call with the answer.
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
