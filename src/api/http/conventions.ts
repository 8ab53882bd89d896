import type { FastifyInstance } from 'fastify'

/** A convention that has an endpoint at a path of the contract's, with another response. */
export type Convention = 'anthropic'

type Strategy = Parameters<FastifyInstance['addConstraintStrategy']>[0]
type Handler = NonNullable<ReturnType<ReturnType<Strategy['storage']>['get']>>

/** Lets endpoints say whose requests they answer. Clients of Anthropic send its version with every request. */
export function distinguishConventions(app: FastifyInstance): void {
  app.addConstraintStrategy({
    name: 'convention',
    storage: () => {
      const handlers = new Map<unknown, Handler>()
      return {
        get: (convention) => handlers.get(convention) ?? null,
        set: (convention, handler) => void handlers.set(convention, handler),
      }
    },
    deriveConstraint: ({ headers }: { headers: Record<string, unknown> }): Convention | undefined =>
      headers['anthropic-version'] === undefined ? undefined : 'anthropic',
  })
}
