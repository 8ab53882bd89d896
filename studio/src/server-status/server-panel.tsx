import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { FilesSection } from '../files/files-section.tsx'
import { ModelsSection } from '../models/models-section.tsx'
import { key } from '../server/connection.ts'
import { Tabs } from '../widgets/tabs.tsx'
import { LoadSection } from './load-section.tsx'
import { watchStatus } from './status.ts'

type Section = 'models' | 'load' | 'files'

const SECTIONS = [
  { id: 'models', title: 'Models', Content: ModelsSection },
  { id: 'load', title: 'Load', Content: LoadSection },
  { id: 'files', title: 'Files', Content: FilesSection },
] as const

const shown = signal<Section>('models')

/** The server's models, how busy it is, and the files of the organisation. It is asked only while somebody looks. */
export function ServerPanel() {
  const given = key.value
  useEffect(() => (given === null ? undefined : watchStatus()), [given])
  return (
    <Tabs
      label="Server"
      tabs={SECTIONS}
      chosen={shown.value}
      onChoose={(id) => {
        shown.value = id
      }}
    />
  )
}
