import { signal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { serverSection } from '../mode-choice.ts'
import { callJson } from '../server/call.ts'
import { model as chosen, models } from '../server/connection.ts'
import { type Failure, toFailure } from '../server/failure.ts'
import { loadModels } from '../server/load-models.ts'
import { askStatus, engineOf, may, statusFailure } from '../server-status/status.ts'
import { Button } from '../widgets/button.tsx'
import { ConfirmDialog } from '../widgets/dialogs/confirm-dialog.tsx'
import { FailureNotice } from '../widgets/notices/failure-notice.tsx'
import { ScopeNotice } from '../widgets/notices/scope-notice.tsx'
import { bytesText } from '../widgets/quantities.ts'
import { ModelCard } from './model-card.tsx'

/** The id of the model that the user is about to delete. */
const doomed = signal<string | null>(null)
/** Ids that are being deleted: requests that are under way end first. */
const leaving = signal<readonly string[]>([])
const deleteFailure = signal<{ readonly id: string; readonly failure: Failure } | null>(null)
const freed = signal<string | null>(null)

/** The models of the server; a key of scope `admin` may delete them. */
export function ModelsSection() {
  const heading = useRef<HTMLHeadingElement>(null)
  const isAdmin = may('admin')
  const failed = deleteFailure.value
  return (
    <div class="server-section">
      {statusFailure.value && <FailureNotice failure={statusFailure.value} onRetry={() => void askStatus()} />}
      <div class="models-head">
        <h2 ref={heading} tabIndex={-1}>
          Models of this server
        </h2>
        <Button
          icon="plus"
          onClick={() => {
            serverSection.value = 'get'
          }}
        >
          Get a model
        </Button>
      </div>
      {models.value.length === 0 && <p class="empty">The server has no models.</p>}
      {failed && <FailureNotice failure={failed.failure} onRetry={() => void deleteModel(failed.id)} />}
      <p class="small-fact" role="status">
        {freed.value}
      </p>
      <ul class="model-cards">
        {models.value.map((model) => {
          const engine = engineOf(model.id)
          const canDelete = isAdmin === true && engine?.stored === true && !leaving.value.includes(model.id)
          return (
            <ModelCard
              key={model.id}
              model={model}
              engine={engine}
              mayExamine={isAdmin === true}
              onDelete={
                canDelete
                  ? () => {
                      doomed.value = model.id
                    }
                  : null
              }
            />
          )
        })}
      </ul>
      {isAdmin === false && (
        <ScopeNotice scopes="admin" title="This key may use models, but not delete them.">
          Open the link that <code>npm start</code> prints in a terminal, or create a key with
        </ScopeNotice>
      )}
      {doomed.value !== null && (
        <ConfirmDialog
          title="Delete this model?"
          action="Delete it"
          onConfirm={() => {
            const id = doomed.value!
            void deleteModel(id).then(() => heading.current?.focus())
          }}
          onClose={() => {
            doomed.value = null
          }}
        >
          <p>
            <code>{doomed.value}</code> will no longer be served, and its files will be deleted. Answers in progress
            finish first.
          </p>
        </ConfirmDialog>
      )}
    </div>
  )
}

async function deleteModel(id: string): Promise<void> {
  deleteFailure.value = null
  freed.value = `Deleting ${id}…`
  leaving.value = [...leaving.value, id]
  // Asked first: the list of models may be without it before the answer comes.
  const wasChosen = chosen.value?.id === id
  try {
    const path = `/v1/models/${encodeURIComponent(id)}`
    const { freed_bytes } = await callJson<{ freed_bytes: number }>(path, { method: 'DELETE' })
    models.value = models.value.filter((model) => model.id !== id)
    const next = wasChosen && chosen.value !== null ? ` This page uses ${chosen.value.id}.` : ''
    freed.value = `${id} is deleted: ${bytesText(freed_bytes)} freed.${next}`
    await Promise.all([loadModels(), askStatus()])
  } catch (error) {
    freed.value = null
    deleteFailure.value = { id, failure: toFailure(error) }
  } finally {
    leaving.value = leaving.value.filter((one) => one !== id)
  }
}
