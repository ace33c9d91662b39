// local only
