import { stat } from 'node:fs/promises'
import { type StoredCard, storeCard } from './cache/model-store.ts'
import { readAddress, shownAddress } from './choice/model-address.ts'
import { adviceOf } from './download/attempts.ts'
import { ConnectionError, HttpClient } from './download/http-client.ts'
import { fetchProjector, pullFile } from './file-pull.ts'
import { HubError } from './hub-error.ts'
import { readLocal } from './local-file.ts'
import type { FetchingOptions, PullOptions, PullRequest } from './pull-options.ts'
import { removeReplaced } from './remove.ts'
import { pullFromRepository } from './repository-pull.ts'

/**
 * Fetches a model and makes a card for it. An interrupted pull is resumed when the same model is requested again.
 * @throws HubError or ConfigError with a sentence for the user; the signal's reason.
 */
export async function pull(request: PullRequest, options: PullOptions): Promise<StoredCard> {
  const { settings, store, tuning, report, signal } = options
  const address = await readAddress(request.address, settings.endpoint)
  const http = new HttpClient(settings, tuning)
  const hub = { http, signal, tuning, note: (message: string) => report({ type: 'note', message }) }
  const fetching: FetchingOptions = {
    ...options,
    hub,
    async outsideProjector(given, folder) {
      if (/^https?:\/\//i.test(given)) {
        if (!URL.canParse(given)) throw new HubError(`--mmproj: '${shownAddress(given)}' is not an address`)
        return fetchProjector(new URL(given), folder, fetching)
      }
      return (await stat(given).catch(() => null)) === null ? null : readLocal(given, 'projector')
    },
  }
  try {
    const card =
      address.kind === 'file'
        ? await pullFile(address.url, request, fetching)
        : await pullFromRepository(address, request, fetching)
    signal.throwIfAborted()
    const stored = await storeCard(store, { ...card, isTextByWish: request.projector === null })
    if (stored.replaced !== null) await removeReplaced(stored.replaced, { store, cacheRoot: settings.cacheRoot })
    const { file, aliases, model, projector } = stored.card
    const replaces = stored.replaced === null ? null : (stored.replaced.source ?? stored.replaced.model)
    const entry = address.kind === 'file' ? null : address.entry
    const [faults, prompt] = [entry?.faults.map(({ fault }) => fault) ?? [], entry?.prompt ?? null]
    report({ type: 'done', id: card.id, aliases, card: file, model, projector, replaces, faults, prompt })
    return stored.card
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof ConnectionError)) throw error
    const advice = `${adviceOf(error)}; the same command resumes the download`
    throw new HubError(`The download stopped: ${error.message}; ${advice}`, { cause: error })
  } finally {
    await http.close()
  }
}
