import { randomUUID } from 'node:crypto'
import {
  isInitializeRequest,
  type McpServer,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import { LRUCache } from 'lru-cache'

const MOST_SESSIONS = 100
const IDLE_MS = 3_600_000
const SESSION_HEADER = 'mcp-session-id'

interface Session {
  readonly transport: WebStandardStreamableHTTPServerTransport
  /** Requests whose answers are not sent yet. */
  calls: number
}

/**
 * Sessions over HTTP, for clients of protocol versions before 2026-07-28. They cancel a call with a separate message,
 * which only a session can match with the call. Later versions have no sessions, and close the connection instead.
 */
export function openSessions(create: () => McpServer) {
  /**
   * Sessions that end once their calls are answered. Until then, clients may cancel these calls, or answer their
   * questions.
   */
  const ending = new Map<string, Session>()
  const open = new LRUCache<string, Session>({
    max: MOST_SESSIONS,
    ttl: IDLE_MS,
    updateAgeOnGet: true,
    // Also called for an idle session, or the oldest of too many. Its client begins another.
    dispose: (session, id) => {
      if (session.calls > 0) ending.set(id, session)
      else void session.transport.close()
    },
  })
  const begin = async (request: Request, parsedBody: unknown): Promise<Response> => {
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void open.set(id, { transport, calls: 0 }),
      onsessionclosed: (id) => void open.delete(id),
    })
    await create().connect(transport)
    return transport.handleRequest(request, { parsedBody })
  }
  const countCall = (id: string, session: Session, ended: AbortSignal) => {
    if (ended.aborted) return
    session.calls++
    const end = () => {
      session.calls--
      if (session.calls === 0 && ending.delete(id)) void session.transport.close()
    }
    ended.addEventListener('abort', end, { once: true })
  }
  return {
    /**
     * @param body of the request, parsed; undefined for one without.
     * @param ended fires when its answer is sent, or its client has disconnected.
     * @returns null for a request that belongs to no session.
     */
    async handle(request: Request, body: unknown, ended: AbortSignal): Promise<Response | null> {
      const id = request.headers.get(SESSION_HEADER)
      if (id === null) return isInitializeRequest(body) ? begin(request, body) : null
      const session = open.get(id) ?? ending.get(id)
      if (session !== undefined) {
        if (request.method === 'POST') countCall(id, session, ended)
        return session.transport.handleRequest(request, { parsedBody: body })
      }
      const error = { code: -32001, message: 'Unknown session: initialize a new one' }
      return Response.json({ jsonrpc: '2.0', error, id: null }, { status: 404 })
    },
    close: () => open.clear(),
  }
}
