import { signal, useSignalEffect } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { models } from '../server/connection.ts'
import { may } from '../server-status/status.ts'
import { Segments } from '../widgets/fields/segments.tsx'
import { FailureNotice } from '../widgets/notices/failure-notice.tsx'
import { ScopeNotice } from '../widgets/notices/scope-notice.tsx'
import { bytesText, counted } from '../widgets/quantities.ts'
import { catalogue, catalogueFailure, loadCatalogue, USES } from './catalogue.ts'
import { CatalogueCard } from './catalogue-card.tsx'
import { pullFailure, pullNote, pullState, retryPull } from './pull.ts'
import { PullDone } from './pull-done.tsx'
import { AddressForm, ChoiceForm } from './pull-form.tsx'
import { PullProgress } from './pull-progress.tsx'

/** Fetches a model: those that Lookout recommends, or any of the hub. One step is shown at a time. */
export function GetSection() {
  const state = pullState.value
  const failure = pullFailure.value
  const mayGet = may('admin')
  const section = useRef<HTMLElement>(null)
  const isOpened = useRef(false)
  const isChoosing = state.step === 'idle' || state.step === 'looking'
  useEffect(() => {
    // What had the focus may have made room for the next step.
    if (isOpened.current && document.activeElement === document.body) {
      section.current?.querySelector<HTMLElement>('input:checked, input[id], button')?.focus({ preventScroll: true })
    }
    isOpened.current = true
  }, [isChoosing ? 'idle' : state.step])
  return (
    <section ref={section} class="server-section" aria-labelledby="get-title">
      <h2 id="get-title" class="hidden">
        Get a model
      </h2>
      {state.step === 'choosing' && <ChoiceForm choice={state.choice} />}
      {state.step === 'pulling' && <PullProgress model={state.model} files={state.files} />}
      <PullDone />
      {pullNote.value && <p class="small-fact">{pullNote.value}</p>}
      {failure && <FailureNotice failure={failure} onRetry={() => void retryPull()} />}
      {isChoosing && (
        <>
          {mayGet === false && (
            <ScopeNotice scopes="admin" title="This key may use models, but not fetch them.">
              Open the link that <code>npm start</code> prints in a terminal, or create a key with
            </ScopeNotice>
          )}
          <Cards mayGet={mayGet === true} />
          {mayGet === true && (
            <>
              <h2>Any other repository</h2>
              <AddressForm isLooking={state.step === 'looking'} />
            </>
          )}
        </>
      )}
    </section>
  )
}

type Filter = 'all' | (typeof USES)[number]['value']
const FILTERS = [{ value: 'all', title: 'All' }, ...USES] as const satisfies readonly { value: Filter; title: string }[]
const filter = signal<Filter>('all')

function Cards({ mayGet }: { readonly mayGet: boolean }) {
  // Which of them are here depends on what the server has.
  useSignalEffect(() => {
    models.value
    void loadCatalogue()
  })
  const known = catalogue.value
  if (catalogueFailure.value) {
    return <FailureNotice failure={catalogueFailure.value} onRetry={() => void loadCatalogue()} />
  }
  if (known === null) return <p class="empty">Loading…</p>
  const use = filter.value
  const shown = use === 'all' ? known.data : known.data.filter(({ uses }) => uses.includes(use))
  const card = (entry: (typeof shown)[number]) => <CatalogueCard key={entry.repository} entry={entry} mayGet={mayGet} />
  const [fitting, tooLarge] = [shown.filter(({ fits }) => fits !== 'no'), shown.filter(({ fits }) => fits === 'no')]
  return (
    <>
      <p class="small-fact">
        Best for this server first: {bytesText(known.available_bytes)} of memory is available. Facts are their makers',
        looked up on {known.checked}.
      </p>
      <div class="uses">
        <Segments
          label="What for"
          value={use}
          choices={FILTERS}
          onChoose={(value) => {
            filter.value = value
          }}
        />
      </div>
      {fitting.length === 0 && <p class="empty">No model for this fits the memory of this server.</p>}
      <ul class="model-cards" aria-label="Models to get">
        {fitting.map(card)}
      </ul>
      {tooLarge.length > 0 && (
        <details class="too-large">
          <summary>{counted(tooLarge.length, 'model')} too large for this server</summary>
          <ul class="model-cards" aria-label="Models that are too large">
            {tooLarge.map(card)}
          </ul>
        </details>
      )}
    </>
  )
}
