import type { FastifyInstance } from 'fastify'

/** A convention with an endpoint at one of the contract's paths, but another response. */
export type Convention = 'anthropic'

type Strategy = Parameters<FastifyInstance['addConstraintStrategy']>[0]
type Handler = NonNullable<ReturnType<ReturnType<Strategy['storage']>['get']>>

/** Lets endpoints declare which convention's requests they answer. Anthropic's clients always send its version. */
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
