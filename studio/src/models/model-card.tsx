import { chooseModel, model as chosen } from '../server/connection.ts'
import type { Model } from '../server/wire.ts'
import { stateText } from '../server-status/state-text.ts'
import type { EngineStatus, Examination } from '../server-status/status-body.ts'
import { Button, IconButton } from '../widgets/button.tsx'
import { bytesText } from '../widgets/quantities.ts'
import { ExaminationView } from './examination-view.tsx'
import { abilitiesOf, answersWith, contextText, takes } from './model-facts.ts'

interface ModelCardProps {
  readonly model: Model
  /** What computes it; null while that is not known. */
  readonly engine: EngineStatus | null
  /** Whether the page's key may have it checked. */
  readonly mayExamine: boolean
  /** Null where the page's key may not, or the model is one of the settings. */
  readonly onDelete: (() => void) | null
}

/** A model that came before there were examinations, or without one. */
const NEVER: Examination = {
  state: 'skipped',
  overall: null,
  ok: null,
  places_off_by: null,
  findings: [],
  unchecked: [],
}

/** What a model can do, whether it is loaded, and the choice to use it for the page. */
export function ModelCard({ model, engine, mayExamine, onDelete }: ModelCardProps) {
  const isChosen = chosen.value?.id === model.id
  const facts: readonly (readonly [string, readonly string[]])[] = [
    ['Takes', takes(model)],
    ['Marks with', answersWith(model)],
    ['Can', abilitiesOf(model)],
  ]
  return (
    <li class={`model-card ${isChosen ? 'chosen' : ''}`} aria-label={model.id}>
      <div class="model-head">
        <h3>{model.name}</h3>
        {engine && (
          <span class={`state ${engine.state}`}>
            {stateText(engine.state)}
            {engine.memory_bytes !== null && `, ${bytesText(engine.memory_bytes)}`}
          </span>
        )}
      </div>
      {model.name !== model.id && <code class="model-id">{model.id}</code>}
      {model.description && <p>{model.description}</p>}
      <dl class="model-facts">
        {facts.map(
          ([title, words]) =>
            words.length > 0 && (
              <div key={title}>
                <dt>{title}</dt>
                <dd>{words.join(', ')}</dd>
              </div>
            ),
        )}
        <div>
          <dt>Context</dt>
          <dd>{contextText(model)}</dd>
        </div>
      </dl>
      {engine && (engine.stored || engine.examination) && (
        <ExaminationView id={model.id} examination={engine.examination ?? NEVER} mayChange={mayExamine} />
      )}
      <div class="model-actions">
        <Button
          pressed={isChosen}
          {...(isChosen ? { icon: 'check' as const } : {})}
          onClick={() => chooseModel(model.id)}
        >
          {isChosen ? 'In use on this page' : 'Use on this page'}
        </Button>
        {onDelete && <IconButton icon="trash" label={`Delete ${model.id}`} onClick={onDelete} />}
      </div>
    </li>
  )
}
