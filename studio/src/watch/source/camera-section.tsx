import { QuestionCharts } from '../events/question-charts.tsx'
import { NewestFrame } from '../newest-frame.tsx'
import { RegionFields } from '../region-fields.tsx'
import type { Watch } from '../wire.ts'

/** Shows what a camera sees that the server speaks to, and what the watch sees in it. */
export function CameraSection({ watch }: { readonly watch: Watch }) {
  const { type, camera, url } = watch.source
  return (
    <section class="watch-live" aria-label="Live">
      <div class="watch-source">
        <NewestFrame watch={watch} />
        <RegionFields watch={watch} />
        <p class="small-fact">{type === 'camera' ? `Camera ${camera}` : url}</p>
      </div>
      <QuestionCharts watch={watch} />
    </section>
  )
}
