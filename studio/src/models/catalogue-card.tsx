import type { ComponentChildren } from 'preact'
import { Button } from '../widgets/button.tsx'
import { bytesText, countText } from '../widgets/quantities.ts'
import { type CatalogueModel, FITS, USES } from './catalogue.ts'
import { beginWith } from './first-question.ts'
import { MODALITIES } from './model-facts.ts'
import { getModel, lookAtSizes } from './pull.ts'

interface CatalogueCardProps {
  readonly entry: CatalogueModel
  /** Whether the page's key may fetch models. */
  readonly mayGet: boolean
}

/** A model to fetch: what it is for, what it takes, what its makers say of it, and what is not known. */
export function CatalogueCard({ entry, mayGet }: CatalogueCardProps) {
  const { title, summary, fits, bytes, memory_bytes, tokens_per_second: speed, places, faults, served_as: id } = entry
  const isHere = id !== null
  return (
    <li class="model-card" aria-label={title}>
      <div class="model-head">
        <h3>{title}</h3>
        <span class={`fit ${fits}`}>{FITS[fits]}</span>
      </div>
      <p>{summary}</p>
      <dl class="model-facts">
        <Fact title="For">{entry.uses.map((use) => forUse(use)).join(', ')}</Fact>
        <Fact title="Takes">{entry.modalities.map((name) => MODALITIES[name] ?? name).join(', ')}</Fact>
        <Fact title="Size">
          {bytesText(bytes)} to fetch, takes {bytesText(memory_bytes)} of memory
        </Fact>
        <Fact title="Speed">
          {speed === null
            ? 'not measured on this machine'
            : `about ${countText(Math.max(1, Math.round(speed)))} tokens a second`}
        </Fact>
        <Fact title="Boxes">{placesText(places)}</Fact>
        <Licence licence={entry.licence} />
        {faults.length > 0 && (
          <Fact title="Faults">
            <details>
              <summary>{faults.length} known</summary>
              <ul class="faults">
                {faults.map((fault) => (
                  <li key={fault}>{withCode(fault)}</li>
                ))}
              </ul>
            </details>
          </Fact>
        )}
        <Fact title="Tried">{entry.tried === null ? 'not by us' : `${entry.tried.on}: ${entry.tried.verdict}`}</Fact>
      </dl>
      <More entry={entry} />
      {(isHere || mayGet) && (
        <div class="model-actions">
          {isHere ? (
            <Button icon="check" onClick={() => void beginWith(id)}>
              Here: use it
            </Button>
          ) : (
            <Button
              kind={fits === 'no' ? 'plain' : 'primary'}
              icon="download"
              title={`Get ${title}`}
              onClick={() => void getModel(entry)}
            >
              Get it
            </Button>
          )}
          {mayGet && (
            <Button kind="quiet" title={`Other sizes of ${title}`} onClick={() => void lookAtSizes(entry)}>
              Other sizes
            </Button>
          )}
        </div>
      )}
    </li>
  )
}

function Fact({ title, children }: { readonly title: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd>{children}</dd>
    </div>
  )
}

const COMMERCIAL: Readonly<Record<CatalogueModel['licence']['commercial_use'], string | null>> = {
  yes: null,
  limited: 'commercial use limited',
  no: 'no commercial use',
  unknown: 'commercial use unclear',
}

function Licence({ licence: { name, commercial_use: use, meaning } }: Pick<CatalogueModel, 'licence'>) {
  return (
    <Fact title="Licence">
      <details>
        <summary>
          {name}
          {COMMERCIAL[use] && ' '}
          {COMMERCIAL[use] && <strong class="limited">{COMMERCIAL[use]}</strong>}
        </summary>
        {meaning}
      </details>
    </Fact>
  )
}

function More({
  entry: { scores, languages, places, max_context_tokens: context, ...entry },
}: Pick<CatalogueCardProps, 'entry'>) {
  return (
    <details class="model-more">
      <summary>More</summary>
      <dl class="model-facts">
        <Fact title="From">
          {entry.maker}: <code>{entry.repository}</code>, {entry.quant}
        </Fact>
        {context !== null && <Fact title="Context">{countText(context)} tokens</Fact>}
        {languages !== null && <Fact title="Languages">{languages}</Fact>}
        <Fact title="Tools">{entry.tools ? 'yes' : 'no'}</Fact>
        <Fact title="Thinks">{entry.thinks === 'optional' ? 'when asked to' : entry.thinks}</Fact>
        {places !== null && <Fact title="Writes boxes">{places.notation}</Fact>}
        {[
          ...Map.groupBy(scores, ({ setting, source }) => [...(setting === null ? [] : [setting]), source].join('; ')),
        ].map(([how, alike]) => (
          <Fact key={how} title="Scores">
            {alike.map(({ benchmark, value }) => `${benchmark} ${value}`).join(', ')} ({how})
          </Fact>
        ))}
      </dl>
    </details>
  )
}

/** What stands between backticks is code. */
function withCode(text: string): ComponentChildren {
  return text.split('`').map((part, index) => (index % 2 === 0 ? part : <code key={index}>{part}</code>))
}

function placesText(places: CatalogueModel['places']): string {
  if (places === null) return 'no'
  const also = places.draws.flatMap((kind) => (kind === 'box' ? [] : [`${kind}s`])).join(', ')
  const drawn = !places.draws.includes('box') ? `no, only ${also}` : also === '' ? 'yes' : `yes, also ${also}`
  return `${drawn}. ${places.exactness ?? 'The accuracy is not published'}.`
}

function forUse(use: CatalogueModel['uses'][number]): string {
  return use === 'general' ? 'general use' : USES.find(({ value }) => value === use)!.title.toLowerCase()
}
