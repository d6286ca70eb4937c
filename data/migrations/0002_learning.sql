-- Training and evaluation parts, sign-offs of models, and the training schedule.

CREATE TABLE cluster_part (               -- the part a cluster of questions belongs to permanently; never redrawn
    cluster_id  TEXT PRIMARY KEY,
    part        TEXT NOT NULL,            -- train, validation, calibration, gate
    assigned_at TIMESTAMPTZ NOT NULL
);

CREATE SEQUENCE sign_off_seq;
CREATE TABLE sign_off (                   -- who put which model into use, and why; append-only
    sign_off_id BIGINT PRIMARY KEY DEFAULT nextval('sign_off_seq'),
    role        TEXT NOT NULL,            -- verifier, generator
    action      TEXT NOT NULL,            -- promote, rollback
    model_id    TEXT,                     -- the model put into use; NULL if it is not a registered one
    previous_id TEXT,                     -- the model in use before; NULL if it was not a registered one
    run_id      TEXT,                     -- the run whose comparison the decision was based on
    outcome     TEXT NOT NULL,            -- outcome of that comparison; empty if there was none
    note        TEXT NOT NULL,
    signed_by   TEXT NOT NULL,
    signed_at   TIMESTAMPTZ NOT NULL
);

CREATE TABLE schedule (                   -- when training of a role is due
    role            TEXT PRIMARY KEY,     -- verifier, generator
    after_decisions INTEGER,              -- number of new decisions since the last run; NULL if not counted
    weekday         INTEGER,              -- 0 Monday to 6 Sunday; NULL if not weekly
    hour            INTEGER,              -- 0 to 23, UTC
    may_start       BOOLEAN NOT NULL,     -- started when due; otherwise proposed to leads
    updated_by      TEXT NOT NULL,
    updated_at      TIMESTAMPTZ NOT NULL
);
