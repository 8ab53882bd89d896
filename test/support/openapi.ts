import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'

/** `openapi.json`, as far as tests read it. */
export interface OpenApi {
  readonly openapi: string
  readonly info: { readonly version: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly headers: Readonly<Record<string, unknown>>
    readonly parameters: Readonly<Record<string, unknown>>
  }
}

export interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly discriminator?: object
  readonly [keyword: string]: unknown
}

export interface Operation {
  readonly operationId: string
  readonly parameters?: readonly ({ readonly name: string; readonly in: string } | { readonly $ref: string })[]
  readonly requestBody?: { readonly content: Content }
  readonly responses: Readonly<Record<string, Answer>>
}

interface Answer {
  readonly headers: Readonly<Record<string, { readonly $ref: string }>>
  readonly content?: Content
}

type Content = Readonly<Record<string, { readonly schema: Schema }>>

/** The operations of a server that is started meanwhile, such as `GET /v1/models/{model_id}`, without those that are refused. */
export async function routesOf(start: () => Promise<unknown>): Promise<string[]> {
  const routes = new Set<string>()
  const watch = (message: unknown) => {
    const { fastify } = message as { readonly fastify: FastifyInstance }
    fastify.addHook('onRoute', ({ method, url, onRequest }) => {
      // What answers the methods that a path does not have (`http/routes.ts`).
      if (onRequest !== undefined) return
      for (const name of [method].flat()) {
        if (name !== 'HEAD') routes.add(`${name} ${url.replaceAll(/:(\w+)/g, '{$1}')}`)
      }
    })
  }
  subscribe('fastify.initialization', watch)
  try {
    await start()
  } finally {
    unsubscribe('fastify.initialization', watch)
  }
  return [...routes].sort()
}
