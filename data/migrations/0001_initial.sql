-- The store's first schema. Ids are content-derived text; timestamps are UTC; JSON columns hold objects.

CREATE TABLE question (
    question_id   TEXT PRIMARY KEY,
    context       TEXT NOT NULL,
    options       TEXT[] NOT NULL,
    answer_index  INTEGER,
    benchmark     TEXT NOT NULL,
    source_key    TEXT NOT NULL,
    subject       TEXT NOT NULL,
    source_note   TEXT NOT NULL,
    final_answer  TEXT,                   -- of open questions, which have no options
    cluster_id    TEXT NOT NULL,          -- shared by near-duplicates; data is split by cluster
    superseded_by TEXT,                   -- the question that a later import put under the same benchmark and source_key
    created_at    TIMESTAMPTZ NOT NULL
);

CREATE TABLE variant (
    variant_id            TEXT PRIMARY KEY,
    question_id           TEXT NOT NULL,
    variant_type          TEXT NOT NULL,
    context               TEXT NOT NULL,
    options               TEXT[] NOT NULL,
    answer_index          INTEGER NOT NULL,
    is_control            BOOLEAN NOT NULL,
    shuffle_seed          BIGINT,
    recipe_backend        TEXT NOT NULL,
    recipe_model          TEXT NOT NULL,
    recipe_prompt_version TEXT NOT NULL,
    recipe_sampling       TEXT NOT NULL,
    recipe_seed           BIGINT NOT NULL,
    run_id                TEXT,
    created_at            TIMESTAMPTZ NOT NULL
);

CREATE TABLE contract_check (
    variant_id  TEXT NOT NULL,
    "check"     TEXT NOT NULL,
    holds       BOOLEAN NOT NULL,
    is_required BOOLEAN NOT NULL,
    detail      TEXT NOT NULL,
    PRIMARY KEY (variant_id, "check")
);

CREATE TABLE verdict (
    variant_id       TEXT NOT NULL,
    target           TEXT NOT NULL,       -- TC, LC, AU, valid
    probability      DOUBLE,
    label            BOOLEAN,
    verifier_version TEXT NOT NULL,
    method           TEXT NOT NULL,
    raw              TEXT,
    created_at       TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (variant_id, target, verifier_version, method)
);

-- A variant passes when every required check holds; a variant without checks has no row.
CREATE VIEW contract_outcome AS
SELECT variant_id, bool_and(holds OR NOT is_required) AS passes FROM contract_check GROUP BY variant_id;

-- One verdict per target: the newest from the verifier that judged the variant last.
CREATE VIEW verdict_latest AS
SELECT * FROM verdict
QUALIFY verifier_version = first_value(verifier_version) OVER (
    PARTITION BY variant_id ORDER BY created_at DESC, verifier_version DESC
) AND row_number() OVER (
    PARTITION BY variant_id, verifier_version, target ORDER BY created_at DESC, method
) = 1;

-- v = TC x LC x AU, or the verifier's own verdict on validity if it gave one; NULL while a verdict is missing.
CREATE VIEW variant_validity AS
SELECT variant_id,
       verifier_version,
       coalesce(
           bool_and(label) FILTER (target = 'valid'),
           CASE WHEN bool_or(NOT label) FILTER (target <> 'valid') THEN false
                WHEN count(label) FILTER (target <> 'valid') = 3 THEN true END
       ) AS is_valid
FROM verdict_latest GROUP BY variant_id, verifier_version;

CREATE TABLE annotation (                 -- append-only revisions; a deleted annotation ends with a tombstone
    annotation_id          TEXT NOT NULL,
    revision               INTEGER NOT NULL,
    variant_id             TEXT NOT NULL,
    annotator              TEXT NOT NULL,
    updated_by             TEXT NOT NULL,
    tc                     BOOLEAN,
    lc                     BOOLEAN,
    au                     BOOLEAN,
    corrected_answer_index INTEGER,
    corrected_text         TEXT,
    comment                TEXT NOT NULL,
    is_flagged             BOOLEAN NOT NULL,
    is_skipped             BOOLEAN NOT NULL,
    is_deleted             BOOLEAN NOT NULL,
    is_blind               BOOLEAN NOT NULL,
    shown_verifier         TEXT,
    origin                 TEXT NOT NULL, -- console, label_studio
    ls_server              TEXT,
    ls_task_id             BIGINT,
    ls_annotation_id       BIGINT,
    config_hash            TEXT NOT NULL,
    guidelines_version     TEXT NOT NULL,
    lead_time_s            DOUBLE,
    created_at             TIMESTAMPTZ NOT NULL,
    updated_at             TIMESTAMPTZ NOT NULL,
    content_hash           TEXT NOT NULL,
    PRIMARY KEY (annotation_id, revision)
);

-- The current revision of every annotation: newest timestamp, then tombstone first, then content hash.
CREATE VIEW annotation_current AS
SELECT * FROM annotation
QUALIFY row_number() OVER (
    PARTITION BY annotation_id ORDER BY updated_at DESC, is_deleted DESC, content_hash DESC, revision DESC
) = 1;

CREATE TABLE annotation_map (             -- pairs of Label Studio and desk annotations; written when an annotation is read back
    ls_server        TEXT NOT NULL,
    ls_annotation_id BIGINT NOT NULL,
    annotation_id    TEXT NOT NULL,
    ls_task_id       BIGINT NOT NULL,
    ls_updated_at    TIMESTAMPTZ NOT NULL,
    synced_at        TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (ls_server, ls_annotation_id)
);

CREATE TABLE draft (
    variant_id             TEXT NOT NULL,
    account                TEXT NOT NULL,
    tc                     BOOLEAN,
    lc                     BOOLEAN,
    au                     BOOLEAN,
    corrected_answer_index INTEGER,
    corrected_text         TEXT,
    comment                TEXT NOT NULL,
    is_flagged             BOOLEAN NOT NULL,
    updated_at             TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (variant_id, account)
);

CREATE TABLE queue_item (                 -- variants waiting for review; whether one is blind is drawn once, on entry
    variant_id TEXT PRIMARY KEY,
    is_blind   BOOLEAN NOT NULL,
    draw_seed  BIGINT NOT NULL,
    share      DOUBLE NOT NULL,           -- the blind share at the time of the draw
    priority   DOUBLE NOT NULL,           -- higher comes first
    reason     TEXT NOT NULL,             -- why it has this priority, for a person to read
    queued_at  TIMESTAMPTZ NOT NULL
);

CREATE TABLE queue_later (                -- items that an account put off with "Later": last in its own queue only
    variant_id TEXT NOT NULL,
    account    TEXT NOT NULL,
    put_off_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (variant_id, account)
);

CREATE TABLE lease (                      -- who has an item open, and until when
    variant_id TEXT PRIMARY KEY,
    account    TEXT NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE submission (                 -- tokens of rendered forms, so that a second click finds the result of the first
    token         TEXT PRIMARY KEY,
    annotation_id TEXT NOT NULL,
    revision      INTEGER NOT NULL,
    created_at    TIMESTAMPTZ NOT NULL
);

CREATE TABLE decision (
    variant_id     TEXT PRIMARY KEY,
    outcome        TEXT NOT NULL,         -- accepted, rejected
    tc             BOOLEAN,
    lc             BOOLEAN,
    au             BOOLEAN,
    basis          TEXT NOT NULL,         -- annotations, adjudication, bulk
    annotation_ids TEXT[] NOT NULL,
    decided_by     TEXT NOT NULL,
    decided_at     TIMESTAMPTZ NOT NULL
);

CREATE SEQUENCE audit_seq;
CREATE TABLE audit (
    audit_id BIGINT PRIMARY KEY DEFAULT nextval('audit_seq'),
    happened_at TIMESTAMPTZ NOT NULL,
    actor    TEXT NOT NULL,
    action   TEXT NOT NULL,
    subject  TEXT NOT NULL,
    outcome  TEXT NOT NULL,               -- done, denied, failed
    detail   JSON NOT NULL
);

CREATE TABLE outbox (
    outbox_id       TEXT PRIMARY KEY,
    kind            TEXT NOT NULL,        -- annotation (created or updated, depending on annotation_map), deletion
    annotation_id   TEXT NOT NULL,
    revision        INTEGER NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL,
    attempts        INTEGER NOT NULL,
    next_attempt_at TIMESTAMPTZ NOT NULL,
    last_error      TEXT,
    done_at         TIMESTAMPTZ           -- set after the read-back: "synced"
);

CREATE TABLE inbox (                      -- what Label Studio sent, unchanged; one row per version of an annotation
    ls_server        TEXT NOT NULL,
    ls_annotation_id BIGINT NOT NULL,
    ls_updated_at    TIMESTAMPTZ NOT NULL,
    content_hash     TEXT NOT NULL,
    payload          JSON NOT NULL,
    received_at      TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (ls_server, ls_annotation_id, ls_updated_at, content_hash)
);

CREATE TABLE sync_cursor (
    ls_server     TEXT NOT NULL,
    ls_project_id BIGINT NOT NULL,
    watermark     TIMESTAMPTZ,
    last_delta_at TIMESTAMPTZ,
    last_sweep_at TIMESTAMPTZ,
    stale_since   TIMESTAMPTZ,
    last_error    TEXT,
    counts        JSON NOT NULL,          -- result of the last full comparison, drafts seen, late versions ignored
    PRIMARY KEY (ls_server, ls_project_id)
);

CREATE TABLE quarantine (
    quarantine_id    TEXT PRIMARY KEY,
    ls_server        TEXT NOT NULL,
    ls_task_id       BIGINT,
    ls_annotation_id BIGINT,
    reason           TEXT NOT NULL,
    payload          TEXT NOT NULL,
    seen_at          TIMESTAMPTZ NOT NULL,
    resolved_at      TIMESTAMPTZ
);

CREATE TABLE task_map (
    ls_server        TEXT NOT NULL,
    ls_project_id    BIGINT NOT NULL,
    variant_id       TEXT NOT NULL,       -- the task's external id
    ls_task_id       BIGINT NOT NULL,
    config_hash      TEXT NOT NULL,
    verifier_version TEXT,                -- whose verdicts were pushed as predictions
    pushed_at        TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (ls_server, ls_project_id, variant_id)
);

CREATE TABLE model (
    model_id   TEXT PRIMARY KEY,          -- content hash of the folder
    role       TEXT NOT NULL,             -- verifier, generator
    kind       TEXT NOT NULL,             -- feature, causal_lm
    folder     TEXT NOT NULL,
    manifest   JSON NOT NULL,
    created_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE run (
    run_id         TEXT PRIMARY KEY,
    kind           TEXT NOT NULL,
    state          TEXT NOT NULL,
    folder         TEXT NOT NULL,
    settings       JSON NOT NULL,
    submitted_by   TEXT NOT NULL,
    created_at     TIMESTAMPTZ NOT NULL,
    started_at     TIMESTAMPTZ,
    ended_at       TIMESTAMPTZ,
    pid            BIGINT,
    pid_started_at DOUBLE,
    done           BIGINT NOT NULL,
    total          BIGINT,
    message        TEXT NOT NULL,
    result         JSON NOT NULL
);

CREATE TABLE release (
    name            TEXT PRIMARY KEY,
    number          INTEGER NOT NULL UNIQUE,
    folder          TEXT NOT NULL,
    manifest_sha256 TEXT NOT NULL,
    items           INTEGER NOT NULL,
    created_by      TEXT NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL
);

CREATE TABLE release_item (
    release_name TEXT NOT NULL,
    variant_id   TEXT NOT NULL,
    PRIMARY KEY (release_name, variant_id)
);

CREATE TABLE account (
    name          TEXT PRIMARY KEY,
    display_name  TEXT NOT NULL,
    role          TEXT NOT NULL,
    password_hash TEXT,                   -- argon2; NULL until the person sets a password
    is_active     BOOLEAN NOT NULL,
    ls_user_id    BIGINT,
    created_at    TIMESTAMPTZ NOT NULL
);

CREATE TABLE session (
    session_hash TEXT PRIMARY KEY,        -- SHA-256 of the cookie's token
    account      TEXT NOT NULL,
    created_at   TIMESTAMPTZ NOT NULL,
    expires_at   TIMESTAMPTZ NOT NULL
);

CREATE TABLE sign_in_link (
    link_hash  TEXT PRIMARY KEY,
    account    TEXT NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    used_at    TIMESTAMPTZ
);

CREATE TABLE policy (                     -- values that leads set: blind share, queue seed, guidelines version
    name       TEXT PRIMARY KEY,
    value      JSON NOT NULL,
    updated_by TEXT NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);
