"""What people look at: heat maps, tables and plots."""
