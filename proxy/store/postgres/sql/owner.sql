-- What follows creates tables and functions for proxies, or brings them to the newest version. It
-- is one transaction, and may be run again. An administrator runs it who is a superuser, or has
-- CREATEROLE and CREATE on the database and owns the schema if there is one.
--
-- Functions run with the rights of their owner. That is role weir_owner, which is created here and
-- can neither log in nor do anything outside of the schema. A role under which proxies run needs
-- no more than this:
--
--   GRANT USAGE ON SCHEMA @schema@ TO proxies;
--   GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA @schema@ TO proxies;
--   ALTER ROLE proxies SET default_transaction_isolation = 'read committed';
--   ALTER ROLE proxies SET statement_timeout = '5s';
--   ALTER ROLE proxies SET idle_in_transaction_session_timeout = '5s';
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL search_path = pg_catalog, pg_temp; -- so that no name is looked up where others may create one

-- Makes the owner and the schema, and takes over what is there from whoever runs this. It fails if
-- anything belongs to another role, which could have prepared it to have its code run.
DO $do$
DECLARE
  super bool := (SELECT rolsuper FROM pg_roles WHERE rolname = current_user);
  owner text := CASE WHEN @alone@ AND NOT super THEN current_user ELSE 'weir_owner' END;
  space oid;
  o record;
  fault text;
BEGIN
  PERFORM pg_advisory_xact_lock(1464158546, -1);
  IF owner = 'weir_owner' THEN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = owner) THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', owner);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; -- by another session, for another database
      END;
    END IF;
    SELECT CASE
        WHEN r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolcanlogin OR r.rolreplication OR r.rolbypassrls THEN 'can log in, or has rights of its own'
        WHEN EXISTS (SELECT FROM pg_auth_members m WHERE m.member = r.oid) THEN 'is a member of another role'
        ELSE (SELECT 'has the member ' || u.rolname FROM pg_auth_members m JOIN pg_roles u ON u.oid = m.member
          WHERE m.roleid = r.oid AND NOT u.rolsuper AND NOT u.rolcreaterole LIMIT 1) END
      INTO fault FROM pg_roles r WHERE r.rolname = owner;
    IF fault IS NOT NULL THEN
      RAISE EXCEPTION 'role % cannot own functions: it %; end that, or drop the role', owner, fault USING ERRCODE = 'WR003';
    ELSIF NOT super THEN
      EXECUTE format('GRANT %I TO CURRENT_USER', owner);
    END IF;
  END IF;

  IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = '@name@') THEN
    EXECUTE format('CREATE SCHEMA @schema@ AUTHORIZATION %I', owner);
  END IF;
  SELECT n.oid INTO space FROM pg_namespace n WHERE n.nspname = '@name@';
  FOR o IN
    SELECT x.kind, x.name, r.rolname AS owner, r.rolsuper AS super FROM (
      SELECT 'SCHEMA' AS kind, '@schema@' AS name, n.nspowner AS owner FROM pg_namespace n WHERE n.oid = space
      UNION ALL SELECT 'TABLE', c.oid::regclass::text, c.relowner FROM pg_class c WHERE c.relnamespace = space AND c.relkind IN ('r', 'p', 'f', 'v', 'm', 'S')
      UNION ALL SELECT 'ROUTINE', p.oid::regprocedure::text, p.proowner FROM pg_proc p WHERE p.pronamespace = space
      UNION ALL SELECT 'TYPE', t.oid::regtype::text, t.typowner FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
        WHERE t.typnamespace = space AND (t.typtype IN ('d', 'e', 'r') OR c.relkind = 'c')) x JOIN pg_roles r ON r.oid = x.owner
  LOOP
    IF o.owner NOT IN (owner, current_user) AND NOT (super AND o.super) THEN
      RAISE EXCEPTION '% % belongs to role %: %', lower(o.kind), o.name, o.owner, CASE
          WHEN o.super THEN 'run the SQL that proxy -postgres-schema prints, as a superuser'
          WHEN o.owner = 'weir_owner' THEN 'run the SQL that proxy -postgres-schema prints, as a superuser or a role with CREATEROLE'
          ELSE 'if that role is an administrator''s, run the SQL that proxy -postgres-schema prints as that role; '
            'otherwise name another schema in POSTGRES_SCHEMA' END USING ERRCODE = 'WR003';
    ELSIF o.owner <> owner THEN
      EXECUTE format('ALTER %s %s OWNER TO %I', o.kind, o.name, owner);
    END IF;
  END LOOP;
  SELECT format('table %s has the trigger %I', t.tgrelid::regclass, t.tgname) INTO fault
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = space AND NOT t.tgisinternal LIMIT 1;
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION '%: drop it, or name another schema in POSTGRES_SCHEMA', fault USING ERRCODE = 'WR003';
  END IF;

  FOR o IN -- rights with which another role could add such things
    SELECT x.what, CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE x.grantee::regrole::text END AS grantee FROM (
      SELECT 'CREATE ON SCHEMA @schema@' AS what, a.grantee, n.nspowner AS owner
        FROM pg_namespace n, aclexplode(n.nspacl) a WHERE n.oid = space AND a.privilege_type = 'CREATE'
      UNION ALL SELECT 'TRIGGER ON TABLE ' || c.oid::regclass, a.grantee, c.relowner
        FROM pg_class c, aclexplode(c.relacl) a WHERE c.relnamespace = space AND a.privilege_type = 'TRIGGER') x
    WHERE x.grantee <> x.owner
  LOOP
    EXECUTE format('REVOKE %s FROM %s CASCADE', o.what, o.grantee);
  END LOOP;
  PERFORM set_config('role', owner, true); -- all that follows is done by the owner
END $do$;
REVOKE ALL ON SCHEMA @schema@ FROM PUBLIC;
