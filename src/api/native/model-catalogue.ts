import type { FastifyInstance } from 'fastify'
import { readCatalogue } from '../../catalogue/catalogue.ts'
import { idOfEntry, toCatalogueModel } from '../../catalogue/catalogue-model.ts'
import { type Machine, rankForMachine } from '../../catalogue/machine-fit.ts'
import type { ModelCatalog } from '../../inference/catalog/model-catalog.ts'
import { addEndpoint } from '../http/routes.ts'
import type { ModelCatalogueBody } from './wire/model-catalogue.ts'

export interface ModelCatalogueOptions {
  readonly models: ModelCatalog
  /** Returns the resources that the server has for models now. */
  readonly machine: () => Promise<Machine>
}

/** `GET /v1/models/catalogue`, for any key: it reveals no more than `GET /v1/server`. The contract has no such path. */
export function addModelCatalogue(app: FastifyInstance, { models, machine }: ModelCatalogueOptions): void {
  addEndpoint(app, {
    url: '/v1/models/catalogue',
    bucket: 'models',
    isBesideParameter: true,
    handlers: {
      GET: async (): Promise<ModelCatalogueBody> => {
        const [catalogue, served, has] = await Promise.all([readCatalogue(), models.list(), machine()])
        const here = served.map(({ id, served: { aliases }, card }) => ({ id, aliases, source: card.source ?? null }))
        const fits = rankForMachine(catalogue, has)
        return {
          object: 'list',
          checked: catalogue.checked,
          available_bytes: has.available,
          data: fits.map((fit) => toCatalogueModel(fit, idOfEntry(fit.entry, here))),
        }
      },
    },
  })
}
