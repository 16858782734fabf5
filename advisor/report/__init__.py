"""What people read: tables that fit 80 columns, short forms first, the long form on request."""
